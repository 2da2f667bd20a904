"""The types of the public names of reports; `__init__.py` says where each is imported from."""

from aneforge.commands.benching import bench as bench
from aneforge.commands.checking import CheckOptions as CheckOptions
from aneforge.commands.checking import check as check
from aneforge.commands.collecting import collect as collect
from aneforge.commands.collection import read_collection as read_collection
from aneforge.commands.collection_comparison import compare_collection as compare_collection
from aneforge.commands.comparing import compare as compare
from aneforge.commands.compiling import compile_model as compile_model
from aneforge.commands.demo_networks import network as network
from aneforge.commands.demonstration import demonstrated as demonstrated
from aneforge.commands.diffing import diff as diff
from aneforge.commands.doctoring import doctor as doctor
from aneforge.commands.explaining import explain as explain
from aneforge.commands.listing import list_ops as list_ops
from aneforge.commands.listing import list_targets as list_targets
from aneforge.commands.outputs import save as save
from aneforge.commands.reducing import reduce_model as reduce_model
from aneforge.commands.running import run_model as run_model
from aneforge.report.forms import written_form as written_form
from aneforge.report.gate import Threshold as Threshold
from aneforge.report.gate import outcome as outcome
from aneforge.report.model import Report as Report
from aneforge.report.written import load_report as load_report
from aneforge.report.written import report_from_json as report_from_json
from aneforge.report.written import report_to_json as report_to_json
