"""Problems in text with answers that a program verifies, by family."""

FAMILIES = {
    "addition": "addition:Addition",
    "arithmetic": "arithmetic:Arithmetic",
    "countdown": "countdown:Countdown",
    "equations": "equations:Equations",
    "bases": "bases:Bases",
    "calendar": "calendar:Calendar",
    "sorting": "sorting:Sorting",
    "counting": "counting:Counting",
    "reversal": "reversal:Reversal",
    "edits": "edits:Edits",
    "cipher": "cipher:Cipher",
    "brackets": "brackets:Brackets",
    "regex": "regex:Regex",
    "sql": "sql:SQL",
    "programs": "programs:Programs",
    "paths": "paths:Paths",
    "walking": "walking:Walking",
    "guessing": "guessing:Guessing",
    "logic-grid": "logic_grid:LogicGrid",
    "satisfiability": "satisfiability:Satisfiability",
    "sudoku": "sudoku:Sudoku",
}
"""By name: the module below `families`, and the class."""
