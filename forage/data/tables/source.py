"""CSV and Parquet files as streams of record batches, read by pyarrow, so that no more than a batch is in memory."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from forage.core.columns import MISSING, date_numbers
from forage.core.errors import nearest
from forage.core.types import ForageError
from forage.data.files import missing
from forage.data.formats import package

BLOCK = 8 << 20  # bytes of a CSV in a batch
ROWS = 1 << 16  # rows of Parquet in a batch
SMALL = 4096  # bytes of the dictionary of a column of Parquet with few different texts
DELIMITERS = (",", ";", "\t", "|")
BLANKS = [
    form for word in MISSING for form in {word, word.upper(), word.capitalize(), "NaN" if word == "nan" else word}
]


class Dialect(NamedTuple):
    """The form of a CSV."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"


class Texts(NamedTuple):
    """A column of texts: the different ones, and the number of each row's; -1 for a missing cell of Parquet."""

    names: list[str]
    codes: Int[np.ndarray, " row"]


Cells = Texts | Float[np.ndarray, " row"]


class Source:
    """A table on disk."""

    def __init__(self, path: Path, dialect: Dialect | None = None, blanks: Sequence[str] = ()) -> None:
        """`blanks`: further texts of a missing cell."""
        self.path, self.parquet, self.blanks = path, path.suffix.lower() == ".parquet", tuple(blanks)
        self.skipped: list[str] | None = None  # where a list is put, rows of another length are skipped and noted there
        if not path.exists():
            raise ForageError(missing(path))
        self.arrow = package("pyarrow", f"{path.name}: tables")
        try:
            self.dialect = dialect or (Dialect() if self.parquet else sniff(path))
            self.names = self._read_names()
        except OSError as error:
            raise ForageError(f"{path} cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise ForageError(f"{path} is not a CSV: {error}.") from None

    def _read_names(self) -> list[str]:
        if self.parquet:
            names = list(self._schema().names)
        else:
            try:
                with open(self.path, newline="", encoding=encoding_of(self.dialect)) as file:
                    given = [n.strip() for n in next(csv.reader(file, delimiter=self.dialect.delimiter), [])]
                    names = [name or f"unnamed {i}" for i, name in enumerate(given)]
            except csv.Error as error:
                raise ForageError(f"{self.path} is not a CSV: {error}.") from None
            if not names:
                raise ForageError(f"{self.path} is empty: a CSV begins with the names of its columns.")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ForageError(f"{self.path} has two columns named {twice!r}; its columns are {', '.join(names)}.")
        return names

    def _schema(self) -> Any:
        try:
            return package("pyarrow.parquet", "Parquet files").read_schema(self.path)
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise ForageError(f"{self.path} is not a whole Parquet file ({error}).") from None

    def check_names(self, names: Sequence[str]) -> None:
        """Raise `ForageError` for a column that the table lacks."""
        for name in names:
            if name not in self.names:
                raise ForageError(f"{self.path} has no column {name!r}{nearest(name, self.names)}")

    def batches(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Iterator[dict[str, Cells]]:
        """Return the columns of these names, batch by batch: those of `numbers` as floats, NaN where one is missing.

        Others come as texts, or as floats if Parquet holds numbers or dates. Raise `ForageError` for a cell of
        `numbers` that is none, with its line.
        """
        self.check_names(names)
        yield from self._parquet_batches(names, numbers) if self.parquet else self._csv_batches(names, numbers)

    def _csv_batches(self, names: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Cells]]:
        arrow, reader = self.arrow, package("pyarrow.csv", "CSV files")
        texts = arrow.dictionary(arrow.int32(), arrow.string())
        types = {name: arrow.float64() if name in numbers else texts for name in names}
        row = 0
        try:
            stream = reader.open_csv(
                self.path,
                read_options=reader.ReadOptions(
                    block_size=BLOCK, column_names=self.names, skip_rows=1, encoding=self.dialect.encoding
                ),
                parse_options=reader.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=None if self.skipped is None else self._skip,
                ),
                convert_options=reader.ConvertOptions(
                    column_types=types,
                    include_columns=list(names),
                    null_values=[*BLANKS, *self.blanks],
                    strings_can_be_null=False,
                    decimal_point=self.dialect.decimal,
                ),
            )
            for batch in stream:
                row += batch.num_rows
                yield {name: self._cells(batch.column(i), name in numbers) for i, name in enumerate(names)}
        except (self.arrow.ArrowException, OSError) as error:
            self._explain(str(error), numbers)
        if row == 0:
            raise ForageError(f"{self.path} is empty: it has names of columns and no rows.")

    def _skip(self, row: Any) -> str:
        assert self.skipped is not None
        self.skipped.append(f"{row.actual_columns} cells ({row.text[:60]})")
        return "skip"

    def is_blank(self, text: str) -> bool:
        """Return whether a text stands for a missing cell."""
        return text.lower() in MISSING or text in self.blanks

    def number(self, text: str) -> float | None:
        """Return the number of a cell, NaN if it is missing, and `None` if it is no number."""
        return float("nan") if text in self.blanks else to_number(text, self.dialect.decimal)

    def _parquet_batches(self, names: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Cells]]:
        parquet = package("pyarrow.parquet", "Parquet files")
        row = 0
        try:
            file = parquet.ParquetFile(self.path, read_dictionary=self._few_texts(names))
            for batch in file.iter_batches(ROWS, columns=list(names)):
                found = {name: self._cells(batch.column(name), name in numbers) for name in names}
                yield {n: self._numbers(n, x, row) if n in numbers else x for n, x in found.items()}
                row += batch.num_rows
        except (self.arrow.ArrowException, OSError) as error:
            raise ForageError(f"{self.path} is not a whole Parquet file ({error}).") from None
        if row == 0:
            raise ForageError(f"{self.path} is empty: it has no rows.")

    def _few_texts(self, names: Sequence[str]) -> list[str]:
        """Return the columns of texts with a small dictionary in Parquet, which is read in place of the texts."""
        schema, metadata = self._schema(), package("pyarrow.parquet", "Parquet files").read_metadata(self.path)
        texts = {name for name in names if self.arrow.types.is_string(schema.field(name).type)}
        if not texts or not metadata.num_row_groups:
            return []
        group = metadata.row_group(0)
        chunks = [chunk for i in range(group.num_columns) if (chunk := group.column(i)).path_in_schema in texts]
        return [
            chunk.path_in_schema
            for chunk in chunks
            if chunk.has_dictionary_page and 0 < chunk.data_page_offset - chunk.dictionary_page_offset < SMALL
        ]

    def _cells(self, array: Any, number: bool) -> Cells:
        """Return an array of Arrow as floats, or as texts and codes."""
        types = self.arrow.types
        kind = array.type
        if types.is_dictionary(kind):
            return self._texts(array)
        if types.is_boolean(kind) and not number:
            return Texts(["no", "yes"], self._fill(array.cast(self.arrow.int8()), -1).astype(np.int32))
        if types.is_temporal(kind) and not types.is_duration(kind) and not types.is_time(kind):
            moment = self.arrow.timestamp("us", getattr(kind, "tz", None))
            times = self._fill(array.cast(moment, safe=False).cast(self.arrow.int64()), np.iinfo(np.int64).min)
            return date_numbers(times.view("datetime64[us]"))
        if types.is_decimal(kind) or types.is_boolean(kind) or types.is_duration(kind) or types.is_time(kind):
            array = array.cast(self.arrow.int64() if not types.is_decimal(kind) else self.arrow.float64())
        if types.is_integer(array.type) or types.is_floating(array.type):
            numbers = array.cast(self.arrow.float64(), safe=False)
            return self._fill(numbers, np.nan)
        if types.is_string_view(kind):
            array = array.cast(self.arrow.string())
        if types.is_string(array.type) or types.is_large_string(kind):
            return self._texts(array.dictionary_encode())
        raise ForageError(f"{self.path} has a column of {kind}, which is neither a number, a text nor a date.")

    def _texts(self, array: Any) -> Texts:
        names = [str(name).strip() for name in array.dictionary.to_pylist()]
        return Texts(names, self._fill(array.indices, -1))

    def _fill(self, array: Any, missing: float) -> np.ndarray:
        """Return numbers of Arrow as an array with this number for nulls. `fill_null` would import pandas."""
        if not array.null_count:
            return as_numpy(array)
        whole = self.arrow.Array.from_buffers(
            array.type, len(array), [None, array.buffers()[1]], offset=array.offset
        )  # without the mask of nulls
        valid = as_numpy(array.is_valid().cast(self.arrow.int8()))
        return np.where(valid.view(bool), as_numpy(whole), np.asarray(missing, as_numpy(whole).dtype))

    def _numbers(self, name: str, cells: Cells, row: int) -> Float[np.ndarray, " row"]:
        """Return numbers of a column of Parquet, whose texts may be numbers."""
        if not isinstance(cells, Texts):
            return cells
        found = [self.number(text) for text in cells.names]
        for code, number in enumerate(found):
            if number is None and (cells.codes == code).any():
                at = row + int((cells.codes == code).argmax())
                raise ForageError(
                    f"{self.path}: row {at} has {cells.names[code]!r} in column {name}, which is no number."
                )
        return np.array([np.nan if x is None else x for x in found] + [np.nan])[cells.codes]

    def _explain(self, error: str, numbers: Sequence[str]) -> None:
        """Raise `ForageError` for the first bad line of a CSV."""
        try:
            with open(self.path, newline="", encoding=encoding_of(self.dialect)) as file:
                lines = csv.reader(file, delimiter=self.dialect.delimiter)
                next(lines)
                for cells in lines:
                    if not cells:
                        continue
                    line = lines.line_num
                    if len(cells) != len(self.names):
                        raise ForageError(
                            f"{self.path}: line {line} has {len(cells)} cells, and the first line names "
                            f"{len(self.names)}."
                        )
                    for name, cell in zip(self.names, cells, strict=True):
                        if name in numbers and self.number(cell) is None:
                            raise ForageError(
                                f"{self.path}: line {line} has {cell!r} in column {name}, which is no number."
                            )
        except (UnicodeDecodeError, csv.Error) as fault:
            raise ForageError(
                f"{self.path} is not a CSV: {fault}; a file that is not in UTF-8 is read with encoding, as in "
                f'encoding = "cp1252".'
            ) from None
        raise ForageError(f"{self.path} cannot be read as a CSV: {error.splitlines()[0].rstrip('.')}.")

    def place(self, row: int) -> str:
        """Return the name of a row in messages: the line of a CSV, whose blank lines hold no row."""
        if self.parquet:
            return f"row {row}"
        with open(self.path, newline="", encoding=encoding_of(self.dialect)) as file:
            lines = csv.reader(file, delimiter=self.dialect.delimiter)
            next(lines)
            seen = -1
            for cells in lines:
                seen += len(cells) == len(self.names) if self.skipped is not None else bool(cells)
                if seen == row:
                    return f"line {lines.line_num}"
        return f"row {row}"


def as_numpy(array: Any) -> np.ndarray:
    """Return numbers of Arrow without nulls as an array. `to_numpy` would import pandas where that is installed."""
    return np.from_dlpack(array) if len(array) else array.to_numpy()


def encoding_of(dialect: Dialect) -> str:
    """Return the name of the encoding for Python that also drops a byte order mark."""
    return "utf-8-sig" if dialect.encoding.lower().replace("-", "") == "utf8" else dialect.encoding


NUMBER_WITH_COMMA = re.compile(r"[+-]?\d*,\d+")


def sniff(path: Path) -> Dialect:
    """Guess the form of a CSV from its first lines: the delimiter of its first line, and decimal commas."""
    with open(path, "rb") as file:
        start = file.read(1 << 20)
    encoding = "utf-8"
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        encoding, text = "cp1252", start.decode("cp1252", errors="replace")
    first, *lines = text.splitlines()[:200] or [""]
    delimiter = max(DELIMITERS, key=first.count)
    decimal = "."
    if delimiter != ",":
        cells = [cell.strip().strip('"') for line in lines for cell in line.split(delimiter)]
        commas = sum(NUMBER_WITH_COMMA.fullmatch(cell) is not None for cell in cells)
        points = sum(re.fullmatch(r"[+-]?\d*\.\d+", cell) is not None for cell in cells)
        decimal = "," if commas > points else "."
    return Dialect(delimiter, decimal, encoding)


def to_number(cell: str, decimal: str = ".") -> float | None:
    """Return a cell's number, NaN if it is missing, and `None` if it is no number."""
    text = cell.strip()
    if text.lower() in MISSING:
        return float("nan")
    try:
        return float(text if decimal == "." else text.replace(decimal, "."))
    except ValueError:
        return None


def merge_names(known: dict[str, int], texts: Texts) -> Int[np.ndarray, " row"]:
    """Return the codes of texts in a numbering that grows with each new text; -1 for a missing cell."""
    own = [known.setdefault(name, len(known)) for name in texts.names]
    return np.array([*own, -1], np.int32)[texts.codes]


def as_plain(words: Mapping[str, Any]) -> Dialect | None:
    """Return the form of a CSV that a description names; `None` if it names none."""
    given = {name: words[name] for name in Dialect._fields if words.get(name)}
    return Dialect(**given) if given else None
