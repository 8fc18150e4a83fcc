#!/bin/sh
# Gives each alert a runbook_url, from the address of your copy of docs/operations.md:
#   deploy/prometheus/runbooks.sh https://wiki.example.org/swiftlet/operations.html
# Run it again when the address changes; it also writes the rule for the Prometheus operator.
set -eu
case ${1-} in
    *[!A-Za-z0-9.~:/?=%@+,_-]*) ;;
    http://[!/]* | https://[!/]*) address=$1 ;;
esac
if [ -z "${address-}" ]; then
    echo "'${1-}' is no address of your copy of docs/operations.md: name one that begins with https:// or http://, without #, & and spaces" >&2
    exit 2
fi
cd "$(dirname "$0")"
for file in alerts.yml alerts_test.yml; do
    changed=$(sed "s|runbook\(_url\)\{0,1\}: [^#]*#|runbook_url: $address#|" "$file")
    printf '%s\n' "$changed" > "$file"
done
sh ../kubernetes/components/monitoring/prometheus-rule.sh
