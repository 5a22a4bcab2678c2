#!/usr/bin/env bash
# Opens a report in a headless browser, light, dark and on paper, and fails if it writes an error to the console, asks the
# network for anything, or leaves a picture empty.
#   ci/report-look.sh REPORT.html PICTURES
set -euo pipefail
report=$(realpath "${1:?a report}")
mkdir -p "${2:?a directory for pictures}"
pictures=$(realpath "$2")
browser=${BROWSER:-}
for name in chromium chromium-browser google-chrome-stable google-chrome; do
  [[ -n $browser ]] || browser=$(command -v "$name" || true)
done
[[ -n $browser ]] || { echo "no browser: set BROWSER to a Chromium or Chrome" >&2; exit 2; }

if grep -nE '(src|href)="(https?:)?//|@import|url\(' "$report"; then
  echo "the page asks for something outside of itself" >&2
  exit 1
fi
common=(--headless=new --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr --log-level=0)
failures=0
# open NAME OPTION...: runs the browser once, and looks at what the page has said.
open() {
  local name=$1
  shift
  timeout 60 "$browser" "${common[@]}" "$@" "file://$report" > "$pictures/$name.out" 2> "$pictures/$name.log" || {
    echo "$name: the browser failed"
    tail -n 5 "$pictures/$name.log"
    failures=$((failures + 1))
  }
  # What a page says is marked so, apart from what the browser says of itself.
  if grep -E 'CONSOLE' "$pictures/$name.log"; then
    echo "$name: the page wrote to the console"
    failures=$((failures + 1))
  fi
}
open light --window-size=1280,3600 --screenshot="$pictures/light.png"
open dark --window-size=1280,3600 --force-dark-mode --blink-settings=preferredColorScheme=0 --screenshot="$pictures/dark.png"
open narrow --window-size=480,5200 --screenshot="$pictures/narrow.png"
open paper --no-pdf-header-footer --print-to-pdf="$pictures/paper.pdf"
open document --dump-dom
for picture in light.png dark.png narrow.png paper.pdf; do
  [[ -s $pictures/$picture ]] || { echo "$picture is empty" && failures=$((failures + 1)); }
done
cmp -s "$pictures/light.png" "$pictures/dark.png" && echo "dark looks like light" && failures=$((failures + 1))
for part in '<svg' 'class="answers"' '</html>'; do
  grep -q "$part" "$pictures/document.out" || { echo "no $part in the page" && failures=$((failures + 1)); }
done
ls -l "$pictures"
exit $((failures > 0))
