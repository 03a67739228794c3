"""Studies: agents by environments by seeds, resumable cell by cell, with one table at the end (`forage study`).

`design.py` reads a study and makes its cells, `running.py` trains them in one process or several, `summary.py` computes
scores over tasks, `tables.py` and `pictures.py` write them, and `study.py` is the command.
"""
