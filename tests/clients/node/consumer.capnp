# The Worker in consumer.mjs behind Courier's bridge, and the producer of workerd.capnp beside it.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "consumer", worker = .consumer),
    (name = "bridge", worker = .bridge),
  ],
  sockets = [
    (name = "bridge", address = "127.0.0.1:0", http = (), service = "bridge"),
    (name = "consumer", address = "127.0.0.1:0", http = (), service = "consumer"),
  ],
);

const consumer :Workerd.Worker = (
  modules = [(name = "consumer.mjs", esModule = embed "consumer.mjs")],
  compatibilityDate = "2026-11-01",
);

const bridge :Workerd.Worker = (
  modules = [(name = "bridge.mjs", esModule = embed "../../../couriermq/workers/bridge.mjs")],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = ["service_binding_extra_handlers"],
  bindings = [
    (name = "TARGET", service = "consumer"),
    (name = "COURIER_SECRET", fromEnvironment = "COURIER_SECRET"),
  ],
);
