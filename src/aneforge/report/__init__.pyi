"""The public names of reports, listed once."""

from .benching import bench as bench
from .checking import CheckOptions as CheckOptions
from .checking import check as check
from .comparing import compare as compare
from .compiling import compile_model as compile_model
from .demonstration import demonstrated as demonstrated
from .diffing import diff as diff
from .doctoring import doctor as doctor
from .explaining import explain as explain
from .forms import written_form as written_form
from .gate import Threshold as Threshold
from .gate import outcome as outcome
from .listing import list_ops as list_ops
from .listing import list_targets as list_targets
from .model import Report as Report
from .networks import network as network
from .outputs import save as save
from .reducing import reduce_model as reduce_model
from .running import run_model as run_model
from .written import load_report as load_report
from .written import report_from_json as report_from_json
from .written import report_to_json as report_to_json
