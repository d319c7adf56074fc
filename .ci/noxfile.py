"""Sessions that need an environment of their own: `nox -f .ci/noxfile.py -s SESSION`."""

from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parents[1]

# Together with tests/released/known.py: a newer version may fix what is expected there to fail.
RELEASED = (
    "torch==2.13.0",
    "numpy==2.4.6",
    "expecttest==0.3.0",
    "pytest==9.2.0",
    "bitsandbytes==0.50.2",
    "fbgemm-gpu-cpu==1.8.0",
    "optimum-quanto==0.2.7",
    "sphericart-torch==2.0.4",
    "torchao==0.18.0",
)
# Its wheels ask for a later torch than the one above, and run with that one.
WITHOUT_DEPENDENCIES = ("torch-harmonics==0.9.3",)

# The checks that find most for their time; known_of_variants.py expects no others.
ON_VARIANTS = "--customop-checks=fake.forward,fake.backward,values.uninitialized"


@nox.session
def versions(session: nox.Session) -> None:
    """Run the tests with other versions: `-s versions -- "torch==2.4.*" "pytest==8.0.*"`.

    The interpreter is the one that runs nox, or `--force-python 3.10`.
    """
    session.chdir(ROOT)
    session.install("-e", ".[test]", *session.posargs)
    session.run("pytest", "-q", "--pyargs", "reference_ops")
    session.run("pytest", "-q")


@nox.session
def operators(session: nox.Session) -> None:
    """Run the main job with another torch: `-s operators -- "torch==2.8.*"`."""
    session.chdir(ROOT)
    session.install("-e", ".[reference]", *session.posargs)
    session.run("pytest", "-q", "--pyargs", "reference_ops")


@nox.session(python="3.11")
def released(session: nox.Session) -> None:
    """Check the operators of released packages on the CPU; further arguments go to pytest."""
    session.chdir(ROOT)
    session.install(*RELEASED)
    session.install("--no-deps", *WITHOUT_DEPENDENCIES)
    session.install("-e", ".", "jsonschema")  # with which tests/kit.py reads reports
    # The packages warn about each other's absence and about what they use of torch.
    common = ("-W", "default", *session.posargs)
    variants = "tests/released/of_variants"
    session.run(
        "pytest", "tests/released", f"--ignore={variants}", "--customop-variants=off", *common
    )
    # Compiled kernels that trust their arguments end the process on some variants.
    options = ("--customop-isolate", "--customop-timeout=60", ON_VARIANTS)
    session.run("pytest", variants, *options, *common)
