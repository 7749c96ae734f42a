"""The paper's tables and figures, our numbers beside the paper's. Run from a clone, not installed.

``experiments.yaml`` says what every experiment is. A cell is one method on one data set; its result
is one JSON file, and a run skips the cells that are finished. ``legs reproduce`` is the command.
"""
