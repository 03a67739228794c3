"""Claims: the central statements of papers, each as a small experiment that runs (`forage claim NAME`).

A file of `papers` holds one claim, `CLAIM`; its name is the file's, with dashes. What a claim is stands in
`claim.py`.
"""
