"""Which files Python enters: pages that name the files on the way of a row are held to it."""

import sys
from pathlib import Path


def files_entered(folder, work):
    """Do the work; return the files of a folder with a function that was called, by their paths."""
    entered = set()

    def trace(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(folder)):
            entered.add(Path(frame.f_code.co_filename).relative_to(folder).as_posix())

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return entered
