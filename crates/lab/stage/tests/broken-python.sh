#!/bin/sh
# A Python that does not work. The script beside it prints what it says.
. "$(dirname "$0")/said.sh" >&2
exit 127
