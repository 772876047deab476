# SPDX-License-Identifier: Apache-2.0
# Every INTERVAL seconds, runs `penstock doctor` and labels this node with the verdict.
set -u
sleeper=
trap 'kill $sleeper 2>/dev/null; exit 0' TERM
host="https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
account=${ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
results=${RESULTS:-/results}/doctor.json
while :; do
  pause=$INTERVAL
  if ! penstock doctor --json "$results"; then
    state=fails
  elif grep -q '"verdict": *"warning"' "$results"; then
    state=warning
  else
    state=ok
  fi
  curl --silent --show-error --fail --max-time 30 --cacert "$account/ca.crt" \
    --header "Authorization: Bearer $(cat "$account/token")" \
    --header 'Content-Type: application/merge-patch+json' --request PATCH \
    --data "{\"metadata\":{\"labels\":{\"penstock.io/doctor\":\"$state\"}}}" \
    --output /dev/null "$host/api/v1/nodes/$NODE_NAME" ||
    { echo "cannot label node $NODE_NAME $state; trying again in a minute" >&2; pause=60; }
  sleep "$pause" &
  sleeper=$!
  wait "$sleeper"
done
