"""A new paper costs one short module and one short test; the list of longer ones only shrinks."""

import sizes

LEEWAY = 1.1  # a name that becomes longer wraps lines
AT_FIRST = 116  # files on the list when the last parts of one paper left the core


def test_new_modules_and_tests_of_papers_are_short():
    listed, found = sizes.read_list(), sizes.long_files()
    assert not [path for path in found if path not in listed], (
        f"A paper's module has at most {sizes.CODE} lines of code and {sizes.WHOLE} in all, its test {sizes.TEST}; "
        "share code in a base module, or give the core an operator."
    )
    assert not [path for path in listed if path not in found], "python tests/papers/sizes.py strikes these off the list"
    assert len(listed) <= AT_FIRST
    grown = {path: sizes.count_code((sizes.ROOT / path).read_text()) for path in listed}
    assert not [path for path, lines in grown.items() if lines > LEEWAY * listed[path]]


def test_code_is_counted_without_docstrings_comments_and_blanks(tmp_path):
    text = '"""Words.\n\nMore.\n"""\n\nimport os  # why\n\n# a comment\nx = """a\ntext"""\n\n\n'
    text += 'def f(\n    a,\n):\n    "Say."\n    return a\n'
    assert sizes.count_code(text) == 1 + 2 + 3 + 1
    for name, lines, long in (
        ("a.py", 120, False),
        ("b.py", 121, True),
        ("test_c.py", 60, False),
        ("test_d.py", 61, True),
    ):
        (tmp_path / name).write_text("x = 1\n" * lines)
        assert sizes.is_long(tmp_path / name) is long
    (tmp_path / "e.py").write_text("x = 1\n" + "# words\n" * 250)
    assert sizes.is_long(tmp_path / "e.py")
    (tmp_path / "forage_papers" / "rewards").mkdir(parents=True)
    (tmp_path / "forage_papers" / "rewards" / "new.py").write_text("x = 1\n" * 121)
    assert sizes.long_files(tmp_path) == ["forage_papers/rewards/new.py"]
