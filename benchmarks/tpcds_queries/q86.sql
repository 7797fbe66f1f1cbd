-- What is paid on the web for each category and class, and how do the classes rank?
SELECT
  sum(ws_net_paid) AS paid,
  i_category,
  i_class,
  grouping(i_category) + grouping(i_class) AS level,
  rank() OVER (
    PARTITION BY
      grouping(i_category) + grouping(i_class),
      CASE WHEN grouping(i_class) = 0 THEN i_category END
    ORDER BY sum(ws_net_paid) DESC
  ) AS place
FROM web_sales
JOIN date_dim ON d_date_sk = ws_sold_date_sk
JOIN item ON i_item_sk = ws_item_sk
WHERE d_year = 2000
GROUP BY ROLLUP (i_category, i_class)
ORDER BY level DESC, i_category, place, i_class
LIMIT 200
