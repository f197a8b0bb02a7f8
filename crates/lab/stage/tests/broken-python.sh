#!/bin/sh
# A Python that does not work, and says so as the script beside it does.
. "$(dirname "$0")/said.sh" >&2
exit 127
