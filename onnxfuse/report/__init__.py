"""What happened to a model, as one versioned record and as text or JSON made from it.

Nothing here prints, writes files or knows of the command line or of onnxruntime.
"""

from onnxfuse.report.formats import FORMATS, Outcome
from onnxfuse.report.record import SCHEMA_VERSION, Change, ModelRecord, Report, Tool
from onnxfuse.report.survey import default_opset, survey_ops

__all__ = [
    "FORMATS",
    "SCHEMA_VERSION",
    "Change",
    "ModelRecord",
    "Outcome",
    "Report",
    "Tool",
    "default_opset",
    "survey_ops",
]
