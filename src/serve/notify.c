/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/notify.h"

#include "serve/server_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void send_state(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof address.sun_path) return;
    memcpy(address.sun_path, path, strlen(path));
    if (*path == '@') address.sun_path[0] = '\0'; /* abstract */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    ssize_t ignored = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    (void)ignored;
    close(fd);
}

void notify_ready(struct server *s) {
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (usec && (!pid || strtol(pid, NULL, 10) == (long)getpid())) s->watchdog_ns = strtoull(usec, NULL, 10) * 1000;
    send_state("READY=1");
}

void notify_stopping(void) { send_state("STOPPING=1"); }

void notify_watchdog(struct server *s, uint64_t now_ns) {
    if (!s->watchdog_ns || now_ns - s->watchdog_sent_ns < s->watchdog_ns / 3) return;
    if (!registry_is_healthy(&s->registry, now_ns)) return;
    s->watchdog_sent_ns = now_ns;
    send_state("WATCHDOG=1");
}
