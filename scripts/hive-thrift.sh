#!/usr/bin/env bash
# Generates crates/recorder/hive/src/tcli.rs from idl/tcli.thrift, with Apache Thrift's compiler
# (apt install thrift-compiler). Only for those who change the IDL; the result is committed.
set -euo pipefail
cd "$(dirname "$0")/../crates/recorder/hive"
thrift=${THRIFT:-thrift}
"$thrift" --gen rs -out src idl/tcli.thrift
# Older compilers reserve as many elements as a message announces; newer ones let the library
# limit it. All of them name the version of the compiler, which would differ from machine to machine.
sed -i \
  -e 's/with_capacity(list_ident\.size as usize)/with_capacity(thrift::protocol::prealloc_size(list_ident.size))/' \
  -e '1s/ (.*)$//' \
  -e '/^use thrift::server::/d' \
  src/tcli.rs
