"""Files that are whole or absent, folders with one writer, JSON that knows its own checksum.

Everything this package keeps on disk is written through here.
"""

from legs.files.arrays import check_archive, read_arrays
from legs.files.atomic import (
    Temporary,
    append,
    clear_leftovers,
    open_temporary,
    sync_folder,
    write_atomically,
    write_together,
    writing,
)
from legs.files.digests import (
    FileError,
    check_digest,
    check_files,
    digest_of,
    file_digests,
    parse_json,
    with_digest,
)
from legs.files.locking import one_writer
from legs.files.messages import BoundedError
from legs.files.reading import read_file

__all__ = [
    "BoundedError",
    "FileError",
    "Temporary",
    "append",
    "check_archive",
    "check_digest",
    "check_files",
    "clear_leftovers",
    "digest_of",
    "file_digests",
    "one_writer",
    "open_temporary",
    "parse_json",
    "read_arrays",
    "read_file",
    "sync_folder",
    "with_digest",
    "write_atomically",
    "write_together",
    "writing",
]
