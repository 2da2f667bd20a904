"""Network descriptions (netplists, schema version 1.0.10) written from graphs."""

from aneforge.codegen.netplist.writing import Netplist, netplist, save_netplist

__all__ = ["Netplist", "netplist", "save_netplist"]
