"""The rows of the EP table that come with this package, loaded through the same entry point group as a third party's.

Option names were read out of the plugins' documentation and libraries (QNN 2.7, OpenVINO 1.8.1); ONNX Runtime and
the plugins accept unknown keys silently, so the check has to be made here.
"""

from __future__ import annotations

from winml.modelkit.session.ep_spec import EPDeviceSpec

_SWITCH = ("0", "1")
_NUMBER = "[0-9]+"
_TRUTH = ("true", "false", "True", "False", "0", "1")

QNN = EPDeviceSpec(
    name="QNNExecutionProvider",
    alias="qnn",
    vendor="Qualcomm",
    devices=("npu", "gpu"),
    libraries=("onnxruntime_providers_qnn",),
    distributions=("onnxruntime-qnn",),
    nuget_ids=("microsoft.ml.onnxruntime.qnn", "qualcomm.ml.onnxruntime.qnn"),
    msix_names=("Qualcomm.QNN.EP",),
    extra="qnn",
    install='pip install "winml-cli[qnn]"',
    preference={"npu": 0, "gpu": 60},
    options={
        "backend_type": ("htp", "gpu", "cpu", "saver", "ir"),
        "backend_path": None,
        "profiling_level": ("off", "basic", "detailed", "optrace"),
        "profiling_file_path": None,
        "rpc_control_latency": _NUMBER,
        "vtcm_mb": _NUMBER,
        "htp_performance_mode": (
            "burst",
            "balanced",
            "default",
            "high_performance",
            "high_power_saver",
            "low_balanced",
            "extreme_power_saver",
            "low_power_saver",
            "power_saver",
            "sustained_high_performance",
        ),
        "qnn_saver_path": None,
        "qnn_context_priority": ("low", "normal", "normal_high", "high"),
        "htp_graph_finalization_optimization_mode": ("0", "1", "2", "3"),
        "soc_model": "[0-9]+|[A-Z]+[0-9]+[A-Z]*",
        "htp_arch": ("0", "68", "69", "73", "75", "79", "81"),
        "device_id": None,
        "enable_htp_fp16_precision": _SWITCH,
        "enable_htp_fp16_clamp_overflow": _SWITCH,
        "htp_bf16_enable": _SWITCH,
        "offload_graph_io_quantization": _SWITCH,
        "enable_htp_spill_fill_buffer": _SWITCH,
        "enable_htp_shared_memory_allocator": _SWITCH,
        "enable_htp_graph_splitting": _SWITCH,
        "enable_htp_monolithic_lstm": _SWITCH,
        "enable_htp_prepare_only": _SWITCH,
        "enable_vtcm_backup_buffer_sharing": _SWITCH,
        "disable_file_mapped_weights": _SWITCH,
        "dump_json_qnn_graph": _SWITCH,
        "json_qnn_graph_dir": None,
        "dump_qnn_ir_dlc": _SWITCH,
        "dump_qnn_ir_dlc_dir": None,
        "qnn_ir_backend_path": None,
        "extended_udma": _SWITCH,
        "op_packages": None,
        "skip_qnn_version_check": _SWITCH,
        "skip_backend_op_validation": _SWITCH,
        "num_graph_prepare_threads": _NUMBER,
        "enable_framework_op_trace": _SWITCH,
        "framework_op_trace_dir": None,
    },
    default_options={"npu": {"backend_type": "htp"}, "gpu": {"backend_type": "gpu"}},
    device_options=("backend_type", "backend_path", "device_id"),
    emulates=("npu",),
    compiles=True,
    trace_levels=("basic", "detail"),
    monitor="winml.modelkit.session.monitor.qnn_monitor:QNNMonitor",
    trace_options=(
        "profiling_level",
        "profiling_file_path",
        "enable_framework_op_trace",
        "framework_op_trace_dir",
    ),
    translate="winml.modelkit.session.ep_translate:qnn",
    hardware="a Qualcomm Hexagon NPU or Adreno GPU",
    hardware_vendor_ids=(0x17CB, 0x4D4F4351),
)

OPENVINO = EPDeviceSpec(
    name="OpenVINOExecutionProvider",
    alias="openvino",
    vendor="Intel",
    devices=("npu", "gpu", "cpu"),
    libraries=("onnxruntime_providers_openvino_plugin", "onnxruntime_providers_openvino"),
    distributions=("onnxruntime-ep-openvino",),
    nuget_ids=("intel.ml.onnxruntime.openvino", "intel.ml.onnxruntime.ep.openvino"),
    msix_names=("Intel.OpenVINO.EP",),
    extra="openvino",
    install='pip install "winml-cli[openvino]"',
    preference={"npu": 10, "gpu": 30, "cpu": 10},
    options={
        "device_type": None,
        "device_id": None,
        "device_luid": None,
        "cache_dir": None,
        "load_config": None,
        "precision": ("FP32", "FP16", "ACCURACY"),
        "num_of_threads": None,
        "num_streams": None,
        "model_priority": ("LOW", "MEDIUM", "HIGH", "DEFAULT"),
        "enable_opencl_throttling": _TRUTH,
        "enable_qdq_optimizer": _TRUTH,
        "enable_causallm": _TRUTH,
        "disable_dynamic_shapes": _TRUTH,
        "reshape_input": None,
        "layout": None,
    },
    device_options=("device_type", "device_id", "device_luid"),
    meta_ep_names=("OpenVINOExecutionProvider.AUTO",),
    monitor="winml.modelkit.session.monitor.openvino_monitor:OpenVINOMonitor",
    compiles=True,
    kernel_records=True,
    translate="winml.modelkit.session.ep_translate:openvino",
    hardware="Intel hardware (CPU, GPU or NPU)",
    hardware_vendor_ids=(0x8086,),
)

VITISAI = EPDeviceSpec(
    name="VitisAIExecutionProvider",
    alias="vitisai",
    vendor="AMD",
    devices=("npu",),
    libraries=("onnxruntime_vitisai_ep", "onnxruntime_providers_vitisai"),
    nuget_ids=("amd.ml.onnxruntime.vitisai",),
    msix_names=("AMD.NPU.EP", "AMD.VitisAI.EP", "VitisAI.EP"),
    install="the AMD Ryzen AI software, or on Windows 11 the Windows ML EP catalog (VitisAIExecutionProvider)",
    preference={"npu": 20},
    compiles=True,
    hardware="an AMD XDNA NPU",
    hardware_vendor_ids=(0x1022,),
)

TENSORRT_RTX = EPDeviceSpec(
    name="NvTensorRTRTXExecutionProvider",
    alias="nv_tensorrt_rtx",
    vendor="NVIDIA",
    devices=("gpu",),
    libraries=("onnxruntime_providers_nv_tensorrt_rtx",),
    distributions=("onnxruntime-ep-nv-tensorrt-rtx-cu13", "onnxruntime-ep-nv-tensorrt-rtx-cu12"),
    nuget_ids=("nvidia.ml.onnxruntime.ep.nvtensorrtrtx",),
    msix_names=("NVIDIA.TRT-RTX.EP",),
    install="pip install onnxruntime-ep-nv-tensorrt-rtx-cu13, with an NVIDIA driver",
    preference={"gpu": 0},
    compiles=True,
    hardware="an NVIDIA RTX GPU with its driver",
    hardware_vendor_ids=(0x10DE,),
)

CUDA = EPDeviceSpec(
    name="CUDAExecutionProvider",
    alias="cuda",
    vendor="NVIDIA",
    devices=("gpu",),
    bundled_in=("onnxruntime-gpu",),
    install="pip install onnxruntime-gpu (in place of onnxruntime), with an NVIDIA driver",
    preference={"gpu": 10},
    hardware="an NVIDIA GPU with its driver",
    hardware_vendor_ids=(0x10DE,),
)

MIGRAPHX = EPDeviceSpec(
    name="MIGraphXExecutionProvider",
    alias="migraphx",
    vendor="AMD",
    devices=("gpu",),
    libraries=("onnxruntime_providers_migraphx_plugin", "onnxruntime_providers_migraphx"),
    distributions=("onnxruntime-ep-migraphx",),
    bundled_in=("onnxruntime-migraphx",),
    msix_names=("AMD.GPU.EP", "MIGraphX.EP"),
    install="onnxruntime-migraphx from AMD's ROCm, or on Windows 11 the Windows ML EP catalog",
    preference={"gpu": 20},
    compiles=True,
    hardware="an AMD GPU with ROCm or its Windows driver",
    hardware_vendor_ids=(0x1002,),
)

DML = EPDeviceSpec(
    name="DmlExecutionProvider",
    alias="dml",
    vendor="Microsoft",
    devices=("gpu",),
    bundled_in=("onnxruntime-directml",),
    install="pip install onnxruntime-directml (in place of onnxruntime), on Windows",
    platforms=("win32",),
    preference={"gpu": 40},
    hardware="a DirectX 12 GPU",
)

WEBGPU = EPDeviceSpec(
    name="WebGpuExecutionProvider",
    alias="webgpu",
    vendor="Microsoft",
    devices=("gpu",),
    libraries=("onnxruntime_providers_webgpu",),
    distributions=("onnxruntime-ep-webgpu",),
    extra="webgpu",
    install='pip install "winml-cli[webgpu]"',
    preference={"gpu": 50},
    hardware="a GPU with Vulkan, Direct3D 12 or Metal",
)

CPU = EPDeviceSpec(
    name="CPUExecutionProvider",
    alias="cpu",
    vendor="Microsoft",
    devices=("cpu",),
    install="part of onnxruntime",
    preference={"cpu": 0},
    translate="winml.modelkit.session.ep_translate:cpu",
    hardware="any CPU",
)

SPECS: tuple[EPDeviceSpec, ...] = (QNN, OPENVINO, VITISAI, TENSORRT_RTX, CUDA, MIGRAPHX, DML, WEBGPU, CPU)
