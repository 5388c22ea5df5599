# The Worker in worker.mjs produces into the queue `orders` of the Courier that `--external-addr courier=…` names.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "app", worker = .app),
    (name = "orders", worker = .orders),
    (name = "courier", external = (
      http = (injectRequestHeaders = [(name = "Authorization", value = "Bearer root-token")])
    )),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "app")],
);

const app :Workerd.Worker = (
  modules = [(name = "worker.mjs", esModule = embed "worker.mjs")],
  compatibilityDate = "2026-11-01",
  bindings = [(name = "ORDERS", queue = "orders")],
);

const orders :Workerd.Worker = (
  modules = [(name = "bridge.mjs", esModule = embed "bridge.mjs")],
  compatibilityDate = "2026-11-01",
  bindings = [
    (name = "COURIER", service = "courier"),
    (name = "QUEUE", text = "http://courier/client/v4/accounts/default/queues/orders/binding"),
  ],
);
