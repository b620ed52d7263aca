"""Run the runner once, noting what has reached the disk; then go on from every such moment.

Started by test_power_loss.py in a process of its own. At every write, ``fsync``, rename and commit
there are two pictures of the folder: what is *durable*, and what the system holds. Power that goes
leaves the first, the second, or of each file that is longer than what is durable its length filled
with zeros, as a file system does that writes lengths before data. A name is durable once its
folder was synced after it was made, a file's bytes once the file was; SQLite's own files are taken
as they are when a commit returns, which is its promise.
"""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

from streamddcrp.checkpoint import SqliteStore
from streamddcrp_connectors.run.log import Log
from tests.connectors.crash_driver import once, outcome


class Disk:
    """A folder, and what of it would be there after the power went."""

    def __init__(self, folder):
        self.folder = folder
        self.synced = {}  # content of files at their last fsync
        self.names = set()  # that are durable
        self.moments = []

    def files(self):
        """Return all files as they are, by name."""
        found = (p for p in self.folder.rglob("*") if p.is_file())
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in found}

    def note(self):
        """Keep what would be left, if it differs from what was kept last."""
        now = self.files()
        durable = {name: self.synced.get(name, b"") for name in self.names}
        zeros = {
            name: kept + b"\0" * (len(now.get(name, b"")) - len(kept))
            for name, kept in durable.items()
        }
        self.moments += [state for state in (durable, now, zeros) if state not in self.moments[-6:]]

    def fsync(self, path):
        """Note that a file, or the names in a folder, have reached the disk."""
        if not path.is_relative_to(self.folder):
            return
        if path.is_dir():
            there = {str(p.relative_to(self.folder)) for p in path.iterdir() if p.is_file()}
            gone = {name for name in self.names if Path(self.folder, name).parent == path} - there
            self.names = (self.names | there) - gone
        else:
            self.synced[str(path.relative_to(self.folder))] = path.read_bytes()

    def commit(self, database):
        """Note that SQLite's files have reached the disk, their names, too."""
        for path in database.parent.glob(f"{database.name}*"):
            self.fsync(path)
            self.names.add(str(path.relative_to(self.folder)))

    def put_back(self, state):
        """Make the folder what the power left of it."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, content in state.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


def watched(disk, work):
    """Do the work; note every moment at which the disk changes."""
    kept = {
        (os, "fsync"): os.fsync, (Path, "replace"): Path.replace, (Log, "append"): Log.append,
        (Log, "rewind"): Log.rewind, (SqliteStore, "commit"): SqliteStore.commit,
        (SqliteStore, "_prepare"): SqliteStore._prepare,
    }  # fmt: skip

    def fsync(handle):
        disk.note()
        kept[os, "fsync"](handle)
        disk.fsync(Path(os.readlink(f"/proc/self/fd/{handle}")))
        disk.note()

    def replace(path, target):
        disk.note()
        name = str(path.relative_to(disk.folder))
        content = disk.synced.pop(name, b"")
        found = kept[Path, "replace"](path, target)
        disk.note()  # either name may have reached the disk
        disk.synced[str(target.relative_to(disk.folder))] = content
        return found

    def noting(of, name):
        def call(*args, **named):
            found = kept[of, name](*args, **named)
            if of is SqliteStore:
                disk.commit(args[0].path)
            disk.note()
            return found

        return call

    try:
        os.fsync, Path.replace = fsync, replace
        for of, name in kept:
            if of in (Log, SqliteStore):
                setattr(of, name, noting(of, name))
        work()
    finally:
        for (of, name), function in kept.items():
            setattr(of, name, function)


def main():
    """Read cases from standard input as JSON; write what was found as JSON."""
    warnings.simplefilter("ignore")
    request, answers = json.load(sys.stdin), []
    for number, case in enumerate(request["cases"]):
        folder = Path(request["folder"], f"power-{number}")
        folder.mkdir()
        disk = Disk(folder)
        watched(disk, lambda folder=folder, case=case: once(folder, case))
        expected, ended, wrong = outcome(folder, case), disk.files(), []
        disk.names.update(name for name in ended if "sqlite" in name)
        for i, state in enumerate(disk.moments[:: request["every"]]):
            disk.put_back(state)
            once(folder, case)
            if outcome(folder, case) != expected:
                wrong.append(i)
        disk.put_back({name: disk.synced.get(name, b"") for name in disk.names})
        whole = folder / case["sink"]
        lost = not whole.exists() or whole.read_bytes() != ended[case["sink"]]
        answers.append(
            {"moments": len(disk.moments), "output": len(expected[0]), "wrong": wrong, "lost": lost}
        )
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
