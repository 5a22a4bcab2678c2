#!/usr/bin/env bash
# A circuit through circom, this prover and snarkjs: compiled, set up and verified by the tools that people use, proved here.
# Also the other way round: snarkjs' proof under our verifiers. Needs Node with npm, and the network for two packages.
#   ci/circom.sh [program]     the harness to run; `cargo run --release` where none is given
# CIRCOM_DIR names a directory for the packages, which are then kept.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
circom_version=0.2.23
snarkjs_version=0.7.6
program=${1:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages=${CIRCOM_DIR:-$work/packages}
if [[ ! -x $packages/node_modules/.bin/snarkjs ]]; then
  mkdir -p "$packages"
  npm install --prefix "$packages" --no-audit --no-fund --ignore-scripts --silent \
    "circom2@$circom_version" "snarkjs@$snarkjs_version"
fi
circom=$packages/node_modules/.bin/circom2
snarkjs=$packages/node_modules/.bin/snarkjs

harness() {
  if [[ -n $program ]]; then "$program" "$@"; else cargo run --quiet --release -p harness -- "$@"; fi
}

# snarkjs is silent but for its verdicts; its exit code counts.
accepted() {
  "$snarkjs" groth16 verify "$@" > "$work/verdict" 2>&1 || { cat "$work/verdict"; return 1; }
  grep -q OK "$work/verdict"
}

refused() {
  if "$@" > "$work/verdict" 2>&1; then
    echo "accepted, and should not be: $*"
    exit 1
  fi
}

cd "$work"
cp "$root/golden/circom/mul.circom" "$root/golden/circom/input.json" .
echo "=== circom $circom_version: constraints and a witness"
"$circom" mul.circom --r1cs --wasm -p bls12381 -o . > log
node mul_js/generate_witness.js mul_js/mul.wasm input.json mul.wtns

echo "=== snarkjs $snarkjs_version: a key"
{
  "$snarkjs" powersoftau new bls12-381 8 tau0.ptau
  "$snarkjs" powersoftau contribute tau0.ptau tau1.ptau --name=one -e="not secret"
  "$snarkjs" powersoftau prepare phase2 tau1.ptau tau.ptau
  "$snarkjs" groth16 setup mul.r1cs tau.ptau mul0.zkey
  "$snarkjs" zkey contribute mul0.zkey mul.zkey --name=one -e="not secret either"
  "$snarkjs" zkey export verificationkey mul.zkey vk.json
} >> log 2>&1 || { cat log; exit 1; }

cd "$root"
echo "=== our proof, under their verifier"
harness inspect "$work/mul.zkey" --witness "$work/mul.wtns"
harness prove --zkey "$work/mul.zkey" --witness "$work/mul.wtns" --r1cs "$work/mul.r1cs" --compare --out "$work/ours"
accepted "$work/vk.json" "$work/ours/public.json" "$work/ours/proof.json"
# Nothing but that proof for these inputs.
sed 's/"7"/"8"/' "$work/ours/public.json" > "$work/other.json"
refused "$snarkjs" groth16 verify "$work/vk.json" "$work/other.json" "$work/ours/proof.json"

echo "=== their proof, under our verifiers"
"$snarkjs" groth16 prove "$work/mul.zkey" "$work/mul.wtns" "$work/proof.json" "$work/public.json"
cmp <(tr -d ' \n' < "$work/public.json") <(tr -d ' \n' < "$work/ours/public.json")
for key in mul.zkey vk.json; do
  harness verify --proof "$work/proof.json" --key "$work/$key" --public "$work/public.json"
done
if harness verify --proof "$work/proof.json" --key "$work/vk.json" --public "$work/other.json"; then
  echo "accepted for other inputs"
  exit 1
fi
echo "=== circom and snarkjs: all passed"
