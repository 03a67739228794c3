"""Comparison of runs (`forage compare`).

`gathering.py` reads the runs, `verdicts.py` compares their scores, `remarks.py` describes their courses,
`curve_files.py` reads and writes curves as files, and `compare.py` is the command.
"""
