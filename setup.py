"""What setup.cfg cannot say: the text that a package index shows, where relative addresses lead nowhere."""

import re
from pathlib import Path

from setuptools import setup

_README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
_PICTURE = re.compile(r"^!\[.*\]\((?!https:)\S+\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\((?!https:)[^)]+\)")

# A picture goes, and of a link its text stays. The repository has no public address by which either could be completed.
setup(long_description=_LINK.sub(r"\1", _PICTURE.sub("", _README)))
