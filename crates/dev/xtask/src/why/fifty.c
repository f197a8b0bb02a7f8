/* A server with fifty functions of equal cost, one of which may cost twice as much: fifty PORT [FUNCTION] */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 2500

#define FUNCTION(N)                                             \
    __attribute__((noinline)) static unsigned f##N(unsigned n) { \
        unsigned x = 1##N;                                      \
        while (n--)                                             \
            x = x * 1664525u + 1013904223u + 1##N;              \
        return x;                                               \
    }
#define TEN(D)                                                                   \
    FUNCTION(D##0) FUNCTION(D##1) FUNCTION(D##2) FUNCTION(D##3) FUNCTION(D##4)   \
    FUNCTION(D##5) FUNCTION(D##6) FUNCTION(D##7) FUNCTION(D##8) FUNCTION(D##9)
TEN(0) TEN(1) TEN(2) TEN(3) TEN(4)

#define NAMES(D) f##D##0, f##D##1, f##D##2, f##D##3, f##D##4, f##D##5, f##D##6, f##D##7, f##D##8, f##D##9
static unsigned (*const functions[50])(unsigned) = {NAMES(0), NAMES(1), NAMES(2), NAMES(3), NAMES(4)};

static unsigned handle(int slow) {
    unsigned sum = 0;
    for (int i = 0; i < 50; i++)
        sum += functions[i](i == slow ? 2 * STEPS : STEPS);
    return sum;
}

int main(int argc, char **argv) {
    int slow = argc > 2 ? atoi(argv[2]) : -1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 128))
        return perror("fifty"), 1;
    struct pollfd all[256] = {{.fd = listener, .events = POLLIN}};
    int count = 1;
    for (;;) {
        poll(all, count, -1);
        if (all[0].revents && count < 256)
            all[count++] = (struct pollfd){.fd = accept(listener, 0, 0), .events = POLLIN};
        for (int i = 1; i < count; i++) {
            char request[4096], answer[128];
            if (!all[i].revents)
                continue;
            if (read(all[i].fd, request, sizeof request) <= 0) {
                close(all[i].fd);
                all[i--] = all[--count];
                continue;
            }
            char body[16];
            int length = snprintf(body, sizeof body, "%010u", handle(slow) ? 1u : 2u);
            length = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body);
            if (write(all[i].fd, answer, length) != length)
                return 1;
        }
    }
}
