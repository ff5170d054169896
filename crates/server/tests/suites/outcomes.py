"""A plugin of pytest: writes the outcome of each test into the file that OUTCOMES names.

A line has three columns with tabs between them: passed or failed, the name of the test, and the
beginning of what it says. Tests that are skipped, or that fail as their suite expects, have passed.
"""

import os


class Outcomes:
    def __init__(self, path):
        # The suite may run pytest again for tests that want to be alone.
        self.file = open(path, "a", encoding="utf-8")

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.outcome == "passed":
            return
        text = ""
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            text = " ".join(str(getattr(crash, "message", report.longrepr)).split())[:600]
        outcome = "failed" if report.outcome == "failed" else "passed"
        self.file.write(f"{outcome}\t{report.nodeid}\t{text}\n")
        self.file.flush()


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(os.environ["OUTCOMES"]))
