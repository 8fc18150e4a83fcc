"""Lists the scripts of this room, a sentence each."""

from measuring.__main__ import show

show("benchmarks")
