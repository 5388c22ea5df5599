-- The same request again and again. Arguments: method, path, token, file that holds the body.
-- A path with {n} in it gets another number each time.
local threads = {}

function setup(thread)
   thread:set("thread_no", #threads)
   table.insert(threads, thread)
end

function init(args)
   wrk.method = args[1]
   wrk.path = args[2]
   wrk.headers["Authorization"] = "Bearer " .. args[3]
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = io.open(args[4]):read("*a")
   local front, back = args[2]:match("^(.*){n}(.*)$")
   if front then
      local n = 0
      request = function()
         n = n + 1
         return wrk.format(nil, front .. thread_no .. "-" .. n .. back)
      end
   end
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      '\n{"count":%d,"failed":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f}\n',
      summary.requests,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout,
      summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
