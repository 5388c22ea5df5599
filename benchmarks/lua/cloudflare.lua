-- How the Cloudflare dialect pushes, pulls and acks.
return function(path, limit)
   return {
      send = { "POST", path .. "/messages/batch" },
      receive = { "POST", path .. "/messages/pull", '{"batch_size":' .. limit .. ',"visibility_timeout_ms":3600000}' },
      refusal = '"warnings"',
      ack = function(body)
         local acks = {}
         for lease in body:gmatch('"lease_id":"([^"]+)"') do
            acks[#acks + 1] = '{"lease_id":"' .. lease .. '"}'
         end
         return { "POST", path .. "/messages/ack", '{"acks":[' .. table.concat(acks, ",") .. "]}" }, #acks
      end,
   }
end
