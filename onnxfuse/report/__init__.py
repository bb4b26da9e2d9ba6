"""What happened to a model, as one versioned record and as text or JSON made from it.

Nothing here prints, writes files or knows of the command line or of onnxruntime.
"""

from onnxfuse.report.record import SCHEMA_VERSION, Change, ModelRecord, Report, Tool
from onnxfuse.report.survey import default_opset, survey_ops

__all__ = [
    "SCHEMA_VERSION",
    "Change",
    "ModelRecord",
    "Report",
    "Tool",
    "default_opset",
    "survey_ops",
]
