"""The op through `torch.export`.

Opt-in, because it costs several times as much as an opcheck: `--customop-checks=export.roundtrip`.
"""
