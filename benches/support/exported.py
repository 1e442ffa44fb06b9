"""The model as a Python user has it: exported to ONNX, and quantized by ONNX Runtime's own tool."""

import os

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from support.reference import FILES


def write_graphs(folder):
    """Writes both precisions of the model, and returns their paths."""
    paths = {precision: os.path.join(folder, name) for precision, name in FILES.items()}
    model = onnx.load(os.path.join(os.environ["BENCH_MODEL"], FILES["fp32"]))
    # rag-model writes Sum where an export has Add, which ONNX Runtime fuses with what follows
    for node in model.graph.node:
        if node.op_type == "Sum":
            assert len(node.input) == 2, node
            node.op_type = "Add"
    onnx.save(model, paths["fp32"])
    quantize_dynamic(
        paths["fp32"],
        paths["int8"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    return paths
