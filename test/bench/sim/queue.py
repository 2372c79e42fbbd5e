"""M/M/c in SimPy: customers come at random, queue for one of c servers, and leave.

Usage: queue.py CUSTOMERS SERVERS UTILIZATION SEED

Prints JSON: how much CPU time the simulation took, and the mean time in the queue, in mean
service times, of each twentieth of the customers: means that lie apart as chance has it.
"""

import json
import random
import sys
import time

import simpy

BATCHES = 20


class Queue:
    def __init__(self, servers, utilization, seed):
        self.env = simpy.Environment()
        self.servers = simpy.Resource(self.env, capacity=servers)
        self.rate = utilization * servers
        self.chance = random.Random(seed)
        self.waited = [0.0] * BATCHES

    def customer(self, batch):
        came = self.env.now
        with self.servers.request() as turn:
            yield turn
            self.waited[batch] += self.env.now - came
            yield self.env.timeout(self.chance.expovariate(1))

    def arrivals(self, customers):
        for i in range(customers):
            yield self.env.timeout(self.chance.expovariate(self.rate))
            self.env.process(self.customer(i * BATCHES // customers))


def main():
    customers, servers, utilization, seed = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    queue = Queue(servers, utilization, seed)
    queue.env.process(queue.arrivals(customers))
    began = time.process_time()
    queue.env.run()
    took = time.process_time() - began
    print(json.dumps({"cpu_s": took, "mean_waits": [waited * BATCHES / customers for waited in queue.waited]}))


if __name__ == "__main__":
    main()
