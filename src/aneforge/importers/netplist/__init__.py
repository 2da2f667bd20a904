"""Network descriptions (netplists, schema version 1.0.10) read into graphs."""

from aneforge.importers.netplist.document import Document
from aneforge.importers.netplist.reading import load_netplist, parse_netplist
from aneforge.importers.netplist.structure import parse_document

__all__ = ["Document", "load_netplist", "parse_document", "parse_netplist"]
