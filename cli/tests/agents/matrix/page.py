"""The page with the matrix, from the results that are kept. A row that an agent was not run with is a dash."""

import json

from agents import ALL, PROJECT
from rows import FAIL, LOGIN, RESUME

PAGE = PROJECT / "docs/internals/agents.md"
BEGIN, END = "<!-- Written by `make agents-test`. -->\n", "<!-- End of what is written. -->\n"
ROWS = [*FAIL, *RESUME, *LOGIN]


def line(cells):
    return f"| {' | '.join(cells)} |\n"


def table(heads, rows):
    return line(heads) + "|" + "---|" * len(heads) + "\n" + "".join(map(line, rows))


class Notes:
    def __init__(self):
        self.texts = []

    def number(self, text):
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def cell(self, row):
        if row is None:
            return "–"
        note = row["note"]
        return f"{row['outcome']} ({self.number(note)})" if note else row["outcome"]

    def text(self):
        lines = [f"{number}. {text}\n" for number, text in enumerate(self.texts, 1)]
        return "".join(lines)


def plain(text):
    """On a line, and no Markdown of its own."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "\\<").replace("[", "\\[")


def matrix(results):
    notes = Notes()
    for result in results:
        for row in result["rows"].values():
            row["note"] = plain(row["note"]) if row["note"] else None
    names = [result["agent"] for result in results]
    rows = [[name, *(notes.cell(result["rows"].get(name)) for result in results)] for name, *_ in ROWS]
    versions = [[result["agent"], result["versions"], result["date"]] for result in results]
    missing = [name for name in ALL if name not in names]
    text = "\n" + table(["agent", "version", "run on"], versions)
    if missing:
        text += f"\nNot run: {', '.join(missing)}.\n"
    text += "\n" + table(["row", *names], rows) + "\n" + notes.text()
    return text + "\n" + table(["row", "yes if"], [[name, promise] for name, promise, _ in ROWS]) + "\n"


def write_page(folder):
    results = [json.loads((folder / f"{name}.json").read_text()) for name in ALL if (folder / f"{name}.json").exists()]
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + matrix(results) + END + after)
