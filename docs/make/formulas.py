"""Typeset the formulas of docstrings: lines of text become MathML, which browsers show without a program."""

from __future__ import annotations

import html
import re

GREEK = dict(
    zip(
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "eta",
            "theta",
            "lambda",
            "mu",
            "pi",
            "rho",
            "sigma",
            "tau",
            "phi",
            "psi",
            "omega",
        ],
        "αβγδεηθλμπρστφψω",
        strict=True,
    )
)
PRIME = "\u2032"
BELOW = {"min", "max", "mean", "sum", "prod", "argmax", "argmin", "std", "grad", "log", "Var", "KL"}
"""Words that take subscripts; in others, such as names of options, an underscore is a letter."""
SIGNS = {
    "<=": "≤",
    ">=": "≥",
    "!=": "≠",
    "<-": "←",
    "->": "→",
    "...": "…",
    "||": "‖",
    "-": "\u2212",
    "~": "\u223c",
    **{sign: sign for sign in "+=<>/,;:()[]{}|.·*?!"},
}
SPACED = set("≤≥≠←→+=<>,;\u2212\u223c")
"""Signs that MathML spaces by itself."""
TOKEN = re.compile(
    r"(?P<wide>\s{2,})|(?P<space>\s)|`(?P<code>[^`]+)`|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<word>[A-Za-z]{3,}(?:-[A-Za-z]+)*'s\b|[A-Za-z]+(?:-[A-Za-z]+)*)"
    r"|(?P<sign><=|>=|!=|<-|->|\.\.\.|\|\||[^\s\w`])|(?P<other>.)"
)


def row(inner: str) -> str:
    return f"<mrow>{inner}</mrow>"


def group_end(text: str, start: int) -> int:
    """Return the place behind the bracket that closes the one at `start`; the text's end if none does."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    opening = text[start]
    for place in range(start, len(text)):
        depth += (text[place] == opening) - (text[place] == pairs[opening])
        if depth == 0:
            return place + 1
    return len(text)


def script(text: str, start: int) -> tuple[str, int]:
    """Return the MathML of a subscript or superscript that begins at `start`, and the place behind it."""
    if start < len(text) and text[start] in "({":
        end = group_end(text, start)
        return row(convert(text[start + 1 : end - 1])), end
    found = re.match(r"-?\d+|[A-Za-z]+\*?|\*", text[start:])
    if found is None:
        return row(""), start
    return row(convert(found[0])), start + found.end()


def word(text: str, start: int, name: str) -> tuple[str, int]:
    """Return the MathML of a name, with its primes and scripts, and the place behind it."""
    place = start + len(name)
    single = len(name) == 1 or name in GREEK
    if not (single or name in BELOW):
        whole = re.match(r"(?:_[A-Za-z0-9]+)*", text[place:])
        assert whole is not None
        if whole[0]:
            return f"<mtext>{html.escape(name + whole[0])}</mtext>", place + whole.end()
    base = f"<mi>{GREEK.get(name, name)}</mi>" if single else f"<mtext>{html.escape(name)}</mtext>"
    below = above = ""
    while place < len(text):
        if text[place] == "'" and single:
            base, place = row(f'{base}<mo lspace="0" rspace="0">{PRIME}</mo>'), place + 1
        elif text[place] == "~" and single:
            base, place = f'<mover accent="true">{base}<mo>~</mo></mover>', place + 1
        elif text[place] == "_" and not below:
            below, place = script(text, place + 1)
        elif text[place] == "^" and not above:
            above, place = script(text, place + 1)
        else:
            break
    if below and above:
        return f"<msubsup>{base}{below}{above}</msubsup>", place
    return (f"<msub>{base}{below}</msub>" if below else f"<msup>{base}{above}</msup>" if above else base), place


def convert(text: str) -> str:
    """Return the MathML of one line, without the `math` element around it."""
    out: list[str] = []
    place, before = 0, ""
    while place < len(text):
        found = TOKEN.match(text, place)
        assert found is not None
        kind, value, end = str(found.lastgroup), found[str(found.lastgroup)], found.end()
        after = text[end : end + 1]
        if kind == "wide":
            out.append('<mspace width="1.5em"/>')
        elif kind == "space":
            following = TOKEN.match(text, end)
            sign = SIGNS.get(following["sign"] or "") if following else ""
            out.append("" if before in SPACED or sign in SPACED else '<mspace width="0.28em"/>')
        elif kind == "code":
            out.append(f'<mtext class="code">{html.escape(value)}</mtext>')
        elif kind == "word" and value == "sqrt" and after == "(":
            close = group_end(text, end)
            out.append(f"<msqrt>{convert(text[end + 1 : close - 1])}</msqrt>")
            end = close
        elif kind == "word":
            shown, end = word(text, place, value)
            out.append(shown)
        elif kind == "number":
            out.append(f"<mn>{value}</mn>")
        else:
            sign = SIGNS.get(value, value)
            if value == "." and (before in "(|," or after in "|)" or (text[place - 1 : place] == " " == after)):
                sign = "·"
            out.append(f'<mo stretchy="false">{html.escape(sign)}</mo>')
        if text[end : end + 1] == "^" and kind not in ("wide", "space"):  # of a number or a bracket
            above, end = script(text, end + 1)
            out[-1] = f"<msup>{out[-1]}{above}</msup>"
        before = SIGNS.get(value, "x") if kind == "sign" else before if kind in ("wide", "space") else "x"
        place = end
    return "".join(out)


def columns(lines: list[str]) -> list[tuple[str, str]]:
    """Part lines into a label and a formula, where formulas begin in one column; no labels where they do not."""
    starts = {len(found[0]) for line in lines if (found := re.match(r"[A-Za-z][\w+ ()-]*? {2,}(?=\S)", line))}
    starts -= {start for start in starts if any(line[:start].strip(" ") and line[start - 1] != " " for line in lines)}
    if len(lines) < 2 or not starts:
        return [("", line) for line in lines]
    at = min(starts)
    return [(line[:at].strip(), line[at:]) for line in lines]


def typeset(block: str) -> str:
    """Return HTML of the lines of a formula."""
    rows = columns([line for line in block.splitlines() if line.strip()])
    labels = any(label for label, _ in rows)
    cells = []
    for label, formula in rows:
        indent = (len(formula) - len(formula.lstrip())) * 0.5
        space = f'<mspace width="{indent}em"/>' if indent else ""
        math = f"<math>{row(space + convert(formula.strip()))}</math>"
        cells.append((f"<span>{html.escape(label)}</span>" if labels else "") + math)
    return f'<div class="formula{" labels" * labels}">{"".join(f"<div>{cell}</div>" for cell in cells)}</div>'
