#!/usr/bin/env bash
# deps.sh: has what the checks need besides Go. On Debian and its kin it installs what is missing,
# elsewhere it says what to install.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }
browser() {
  for b in ${CHROME:+"$CHROME"} chromium chromium-browser google-chrome google-chrome-stable; do
    if have "$b"; then return 0; fi
  done
  [[ $OSTYPE == darwin* && (-d "/Applications/Google Chrome.app" || -d /Applications/Chromium.app) ]]
}

if have apt-get && have dpkg-query; then
  packages=(
    ca-certificates gcc libc6-dev pkg-config fonts-dejavu-core
    mesa-vulkan-drivers libvulkan1
    xvfb xauth libx11-dev libxrandr-dev libxcursor-dev libxinerama-dev libxi-dev libxxf86vm-dev libgl1-mesa-dev libasound2-dev
  )
  missing=()
  for p in "${packages[@]}"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) != installed ]]; then missing+=("$p"); fi
  done
  browser || missing+=(chromium)
  have node || missing+=(nodejs)
  if ((${#missing[@]} == 0)); then
    echo "deps: all there"
    exit 0
  fi
  echo "deps: installing ${missing[*]}"
  root=()
  if [[ $(id -u) != 0 ]]; then
    if ! have sudo; then
      echo "deps: not root and no sudo: run as root: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    root=(sudo)
  fi
  "${root[@]}" apt-get update -q
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  exit 0
fi

missing=()
browser || missing+=("Chromium or Chrome (or name it in CHROME)")
have node || missing+=("Node 18 or later")
have cc || missing+=("a C compiler, for the window and the race detector")
if [[ $OSTYPE == linux* ]]; then
  have xvfb-run || missing+=("xvfb-run")
  have pkg-config && pkg-config --exists x11 xrandr xcursor xinerama xi xxf86vm gl alsa ||
    missing+=("pkg-config and the development files of X11, Xrandr, Xcursor, Xinerama, Xi, Xxf86vm, GL and ALSA")
  compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || missing+=("Mesa's lavapipe and the Vulkan loader")
fi
if ((${#missing[@]})); then
  echo "deps: this is not Debian, so please install:" >&2
  printf '  - %s\n' "${missing[@]}" >&2
  exit 1
fi
echo "deps: all there"
