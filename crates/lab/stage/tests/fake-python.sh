#!/bin/sh
# A Python whose `-m venv` and `pip` do what the scripts beside it say.
here=$(dirname "$0")
case "$*" in
-c*)
    echo 3.11.7
    echo /usr
    ;;
"-m venv "*)
    mkdir -p "$3/bin"
    cp "$here"/venv.sh "$here"/pip.sh "$3/bin"
    ln -s "$0" "$3/bin/python"
    . "$here/venv.sh"
    ;;
*)
    . "$here/pip.sh"
    exit 1
    ;;
esac
