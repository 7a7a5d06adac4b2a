#!/usr/bin/env bash
# Everything that is measured on a GPU, in one go of at most five minutes:
#
#   batch.sh [DIR]     logs go to DIR, else to $OUT, else beside this script
#
# It runs in the folder that `make bench-gpu-bundle` fills, needs Python with numpy and torch, the CUDA driver and, for
# the last part, compute-sanitizer. Each part has its own time limit and log; the script ends with the tables.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OUT=${1:-${OUT:-$here}} PYTHONUNBUFFERED=1
mkdir -p "$OUT"
python=${PYTHON:-python3}
# Kernels for compute-sanitizer, of all kinds: matrix products, attention, reductions, shared memory, atomics.
kernels='copy_2d|softmax|rms_norm|layer_norm|row_sum|row_argmax|transpose_op|bitonic_sort|histogram|stencil_5pt|gemm_f16|gemm_bf16|gemm_nt|gemm_bounds|gemm_splitk|dequant_gemm_w4a16|flash_attention|flash_attention_causal'
tools='memcheck racecheck synccheck'

# part NAME SECONDS COMMAND...: its output goes to NAME.txt, a line about it to the terminal.
part() {
  local name=$1 seconds=$2 start=$SECONDS rc
  shift 2
  timeout -k 5 "$seconds" "$@" >"$OUT/$name.txt" 2>&1
  rc=$?
  echo "# $name: exit status $rc after $((SECONDS - start)) s"
}

cd "$here" || exit 1
start=$SECONDS
part run 40 "$python" run.py
[[ -f full.json ]] && part full 170 "$python" full.py
sanitizer=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer /opt/cuda/bin/compute-sanitizer 2>/dev/null | head -1)
if [[ -n $sanitizer ]]; then
  for tool in $tools; do # side by side: nothing is timed any more
    part "$tool" 75 "$sanitizer" --tool "$tool" --print-limit 10 --error-exitcode 9 \
      "$python" run.py --inline --no-time --only "^($kernels)\\.sm_80\$" &
  done
  wait
else
  echo "# no compute-sanitizer"
fi

{
  echo "## Corpus"
  grep -E '(WRONG|ERROR|^# )' "$OUT/run.txt"
  echo
  echo "## layer_norm"
  grep -E '^(case|layer_norm)' "$OUT/run.txt"
  if [[ -f $OUT/full.results.json ]]; then
    echo
    echo "## Full size: not right, not lowered, or slower than the other compiler"
    awk '/^(#|case)/ || /ERROR|WRONG/ || ($9 ~ /^[0-9.]+$/ && $9 < 0.95)' "$OUT/full.txt"
    echo
    echo "## Full size"
    "$python" full.py --table "$OUT/full.results.json"
  fi
  echo
  echo "## compute-sanitizer"
  for tool in $tools; do
    [[ -f $OUT/$tool.txt ]] && echo "$tool: $(grep -E 'SUMMARY' "$OUT/$tool.txt" | tail -1); $(grep -E '^# [0-9]+ of [0-9]+ right' "$OUT/$tool.txt")"
  done
  echo
  echo "# $((SECONDS - start)) s in all"
} 2>&1 | tee "$OUT/tables.md"
