-- Requests that follow from one another: (send,) receive, ack what was received, and again from the start.
-- Run it with as many threads as connections: each thread is then one client that does one thing after another.
-- Arguments: dialect file, path of the queue, token, messages at a time, file with the batch to send or "-" for none.
-- With nothing to send, a client stops when the queue is empty.
local ffi = require("ffi")
ffi.cdef("typedef struct { long sec; long nsec; } moment; int clock_gettime(int clock, moment *now);")

local threads = {}
local moment = ffi.new("moment")

local function now()
   ffi.C.clock_gettime(1, moment)
   return tonumber(moment.sec) + tonumber(moment.nsec) / 1e9
end

function setup(thread)
   table.insert(threads, thread)
end

settled, failed, first_at, last_at = 0, 0, 0, 0
local dialect, steps, step, pending

local function format(method, path, body)
   return wrk.format(method, path, nil, body)
end

function init(args)
   wrk.headers["Authorization"] = "Bearer " .. args[3]
   wrk.headers["Content-Type"] = "application/json"
   dialect = dofile(args[1])(args[2], tonumber(args[4]))
   steps = { receive = format(unpack(dialect.receive)) }
   if args[5] ~= "-" then
      steps.send = format(dialect.send[1], dialect.send[2], io.open(args[5]):read("*a"))
   end
   step = steps.send and "send" or "receive"
end

function request()
   if first_at == 0 then
      first_at = now()
   end
   return steps[step]
end

local function after_receive(body)
   local ack, count = dialect.ack(body)
   if count > 0 then
      steps.ack, pending, step = format(unpack(ack)), count, "ack"
   elseif steps.send then
      step = "send"
   else
      wrk.thread:stop()
   end
end

local function after_ack(body)
   if body:find(dialect.refusal, 1, true) then
      failed = failed + 1
   else
      settled = settled + pending
      last_at = now()
   end
   step = steps.send and "send" or "receive"
end

function response(status, headers, body)
   if status >= 300 then
      failed = failed + 1
      step = steps.send and "send" or "receive"
   elseif step == "send" then
      step = "receive"
   elseif step == "receive" then
      after_receive(body)
   else
      after_ack(body)
   end
end

function done(summary, latency, requests)
   local count, refused, first, last = 0, 0, math.huge, 0
   for _, thread in ipairs(threads) do
      count = count + thread:get("settled")
      refused = refused + thread:get("failed")
      first = math.min(first, thread:get("first_at"))
      last = math.max(last, thread:get("last_at"))
   end
   local errors = summary.errors
   io.write(string.format(
      '\n{"count":%d,"failed":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f}\n',
      count, refused + errors.connect + errors.read + errors.write + errors.timeout,
      last - first, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
