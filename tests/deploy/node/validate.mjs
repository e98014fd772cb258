// Reads objects of the Gateway API and the Prometheus Operator as JSON, and prints for each what is wrong with it, or null.
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import { PrometheusRule, ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const kinds = { HTTPRoute, PrometheusRule, ServiceMonitor };
let text = "";
for await (const piece of process.stdin) text += piece;
const said = [];
for (const given of JSON.parse(text)) {
  try {
    await new kinds[given.kind](given).validate();
    said.push(null);
  } catch (error) {
    said.push(String(error.message));
  }
}
console.log(JSON.stringify(said));
