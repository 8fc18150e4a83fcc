#!/bin/sh
# Writes prometheus-rule.yaml anew from the alerts that Prometheus reads without an operator.
set -eu
cd "$(dirname "$0")"
{
    cat <<'HEADER'
# Made by prometheus-rule.sh from deploy/prometheus/alerts.yml: change that one.
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
