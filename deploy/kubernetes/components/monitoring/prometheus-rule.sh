#!/bin/sh
# Writes prometheus-rule.yaml from deploy/prometheus/alerts.yml, for the Prometheus operator.
set -eu
cd "$(dirname "$0")"
{
    cat <<'HEADER'
# Made by prometheus-rule.sh from deploy/prometheus/alerts.yml: change that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: swiftlet
  labels:
    app.kubernetes.io/name: swiftlet
spec:
HEADER
    sed '/^#/d; s/^\(.\)/  \1/' ../../../prometheus/alerts.yml
} > prometheus-rule.yaml
