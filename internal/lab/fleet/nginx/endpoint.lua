-- What an endpoint does: it computes a Fibonacci number for every request,
-- counts the request, and takes orders over the control socket. nginx.conf calls
-- the functions of this module; the master loads it, and the workers inherit it.

local ffi = require "ffi"
ffi.cdef [[
    int prctl(int option, unsigned long value);
    int getpid(void);
    int getppid(void);
]]

local endpoint = {}
local state = ngx.shared.endpoint -- what the workers have in common
local master -- the master's process number
local number -- which Fibonacci number to compute
local answer -- and its value
local calls = { [0] = 1, 1 } -- calls[k]: how many function calls fib(k) takes

-- Unrolled, fib is compiled into code that is a matter of luck: one number's cost
-- differs by a factor of 2 between endpoints, and changes while they run. Called
-- as it is written it takes 4 to 5 ns per call, always: 1.2 ms for fib(25), 8 ms
-- for fib(29). (Interpreted it would be as steady, but take over twice as long.)
jit.opt.start("callunroll=0", "recunroll=0")

local function fib(n)
    if n < 2 then
        return n
    end
    return fib(n - 1) + fib(n - 2)
end

-- prepare is called once, in the master.
function endpoint.prepare(n)
    for k = 2, n do
        calls[k] = calls[k - 1] + calls[k - 2] + 1
    end
    number, answer, master = n, fib(n), ffi.C.getpid()
    state:set("requests", 0)
    state:set("factor", 1)
end

-- follow_master makes the kernel kill this worker when its master is gone: a
-- master that is killed cannot tell its workers to end, and they would keep the
-- address. (PR_SET_PDEATHSIG is 1, SIGKILL is 9.)
function endpoint.follow_master()
    ffi.C.prctl(1, 9)
    if ffi.C.getppid() ~= master then -- gone before the kernel knew
        os.exit(1)
    end
end

-- compute does factor times the work of the number. What is left over after
-- whole computations goes into smaller numbers, the largest that fits first. So
-- all requests cost the same; one computation more or less now and then would
-- give them two different costs.
local function compute(factor)
    local left = factor * calls[number]
    for k = number, 0, -1 do
        while left >= calls[k] do
            fib(k)
            left = left - calls[k]
        end
    end
end

-- serve answers a request. The answer is not what compute has computed, which
-- may be less than the number. The request counts before its answer leaves: a
-- client that has it finds itself counted.
function endpoint.serve()
    compute(state:get("factor"))
    state:incr("requests", 1)
    ngx.print(answer)
end

-- The control socket's part.

function endpoint.print_requests()
    ngx.print(state:get("requests"))
end

function endpoint.set_factor(text)
    state:set("factor", assert(tonumber(text)))
end

return endpoint
