// Stands between a queue binding and Courier: the binding calls /message, /batch and /metrics of whatever it is bound
// to, Courier serves them under the path of each queue.
export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    return env.COURIER.fetch(env.QUEUE + pathname, request);
  },
};
