"""Loads the plugin where tilecheck is not installed; where it is, its entry point has, by the same name."""

pytest_plugins = ["pytester", "tilecheck.plugin"]
