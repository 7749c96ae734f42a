"""Files that are whole or absent, folders with one writer, JSON with its own checksum.

Everything this package keeps on disk is written through here.
"""

from legs.io.atomic import append as append
from legs.io.atomic import contents as contents
from legs.io.atomic import one_writer as one_writer
from legs.io.atomic import open_temporary as open_temporary
from legs.io.atomic import sync_folder as sync_folder
from legs.io.atomic import write_atomically as write_atomically
from legs.io.atomic import writing as writing
from legs.io.cells import csv_rows as csv_rows
from legs.io.cells import csv_table as csv_table
from legs.io.cells import plain_cell as plain_cell
from legs.io.cells import plain_cells as plain_cells
from legs.io.digests import check_digest as check_digest
from legs.io.digests import check_files as check_files
from legs.io.digests import check_weights as check_weights
from legs.io.digests import digest_of as digest_of
from legs.io.digests import file_digest as file_digest
from legs.io.digests import file_digests as file_digests
from legs.io.digests import source_digest as source_digest
from legs.io.digests import with_digest as with_digest
from legs.io.reading import BoundedError as BoundedError
from legs.io.reading import FileError as FileError
from legs.io.reading import FileWarning as FileWarning
from legs.io.reading import check_archive as check_archive
from legs.io.reading import check_outputs as check_outputs
from legs.io.reading import expand_user as expand_user
from legs.io.reading import has_keys as has_keys
from legs.io.reading import iter_member as iter_member
from legs.io.reading import parse_json as parse_json
from legs.io.reading import printable as printable
from legs.io.reading import read_arrays as read_arrays
from legs.io.reading import read_file as read_file
