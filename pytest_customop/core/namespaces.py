"""The namespaces of ops that no author wrote: those of torch and of this package."""

# Namespaces whose ops appear inside of authors' ops, where the two have to be distinguished.
NOT_AUTHORS = ("aten", "prims", "prim", "profiler", "pytest_customop")

# All namespaces in which torch 2.4 to 2.15 registers ops, when it is imported and when it compiles.
OF_TORCH = frozenset(
    (
        *NOT_AUTHORS,
        *("_c10d_functional", "_c10d_functional_autograd", "c10d", "c10d_functional", "_dtensor"),
        *("_inductor_test", "_native", "_native_aot", "_quantized", "_test", "coor", "cuda"),
        *("debug_mode_ops", "debugprims", "export", "flex_gemm", "flex_lib", "fsdp", "inductor"),
        *("inductor_prims", "mempool", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "onnx"),
        *("onnx_symbolic", "quantization", "quantized", "quantized_decomposed", "rngprims"),
        *("sparse", "static_runtime", "streams", "symm_mem"),
    )
)
