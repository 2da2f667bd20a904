#!/bin/sh
# Checks a model in any CI: sh check.sh model.onnx known.json
# It needs the command `aneforge`: pip install '.[onnx]' in a checkout, or a wheel that was made there.
# Fails (exit code 1) on findings that the baseline does not have; writes JUnit and Markdown for the CI to show.
set -eu
model=$1
baseline=$2
if [ ! -f "$baseline" ]; then
    aneforge check "$model" --target m1,m4,m5 --fail-on none --quiet --json "$baseline"
    echo "wrote $baseline: commit it"
fi
aneforge check "$model" --target m1,m4,m5 --baseline "$baseline" --junit findings.xml --markdown findings.md
