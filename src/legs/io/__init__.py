"""Files that are whole or absent, folders with one writer, JSON that knows its own checksum.

Everything this package keeps on disk is written through here.
"""

from legs.io.archives import check_archive, iter_member
from legs.io.arrays import read_arrays
from legs.io.atomic import (
    Temporary,
    append,
    clear_leftovers,
    open_temporary,
    sync_folder,
    write_atomically,
    write_together,
    writing,
)
from legs.io.cells import csv_rows, csv_table, plain_cell, plain_cells, safe_cell
from legs.io.digests import (
    FileError,
    FileWarning,
    check_digest,
    check_files,
    check_weights,
    digest_of,
    file_digest,
    file_digests,
    parse_json,
    source_digest,
    with_digest,
)
from legs.io.locking import contents, lock_file, one_writer
from legs.io.messages import BoundedError, printable
from legs.io.paths import check_outputs
from legs.io.reading import expand_user, has_keys, read_file

__all__ = [
    "BoundedError",
    "FileError",
    "FileWarning",
    "Temporary",
    "append",
    "check_archive",
    "check_digest",
    "check_files",
    "check_outputs",
    "check_weights",
    "clear_leftovers",
    "contents",
    "csv_rows",
    "csv_table",
    "digest_of",
    "expand_user",
    "file_digest",
    "file_digests",
    "has_keys",
    "iter_member",
    "lock_file",
    "one_writer",
    "open_temporary",
    "parse_json",
    "plain_cell",
    "plain_cells",
    "printable",
    "read_arrays",
    "read_file",
    "safe_cell",
    "source_digest",
    "sync_folder",
    "with_digest",
    "write_atomically",
    "write_together",
    "writing",
]
